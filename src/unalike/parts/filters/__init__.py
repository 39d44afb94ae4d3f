"""What a server does to uploads before it uses them: rules that withstand lying clients."""
