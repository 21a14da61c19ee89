"""What the API server checks before it stores an object, one module per part of the API."""
