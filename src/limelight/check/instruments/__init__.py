"""What an object computes, measured from outside."""
