"""What is sent: its size, the links it takes, and how long that takes."""
