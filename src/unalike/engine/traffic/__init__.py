"""What is sent, how large it is, which way it goes and how long that takes."""
