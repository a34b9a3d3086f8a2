"""The contract in OpenAPI 3.1: made from the route table and the shapes that the checks use."""
