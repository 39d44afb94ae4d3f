"""The commands as they are typed, with their help; what they do is in the modules beside."""
