"""What others need to prove a store of their own: the contracts, and the real servers to run them on."""
