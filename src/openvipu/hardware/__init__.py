"""The hardware of one IPU-Machine behind a Protocol, and a simulated POD of them."""
