"""Who is who, and what was said: certificates of a consortium, and logs that prove themselves."""
