"""What differs between the two engines: how kernels run, and how tables are kept."""
