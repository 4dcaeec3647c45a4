"""What each kind of object should do, and how it is tested."""
