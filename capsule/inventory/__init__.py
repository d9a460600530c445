"""What this machine is: hardware, software, and why a field could not be read."""
