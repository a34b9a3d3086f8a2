"""One function an endpoint: read the body's shape, call one service, give its answer."""
