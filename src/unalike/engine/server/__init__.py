"""What servers do with the answers of a round: check them, gather them, take their step."""
