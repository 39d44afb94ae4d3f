"""What servers do with the answers of a round: check them, gather them, take a step."""
