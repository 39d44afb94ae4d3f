"""The coordinator: it asks sites, combines what they answer, and leaves a run folder."""
