"""What is still there, and whose it is: departure, release, read-back, receipts."""
