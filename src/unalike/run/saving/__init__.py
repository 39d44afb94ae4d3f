"""What a run writes into its folder: checkpoints, models, and the manifest first and last."""
