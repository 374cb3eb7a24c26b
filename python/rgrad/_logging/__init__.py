"""`torch._logging`: what happens is written to no log."""
