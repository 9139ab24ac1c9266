"""Writers of IR text: registers, lanes, strips and loops."""
