"""Step tables of bound programs, with addresses of code and packed constants."""
