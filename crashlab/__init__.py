"""The lab that kills the product from outside. Speaks HTTP; imports the SDK, never the server."""
