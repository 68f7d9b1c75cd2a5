"""The pods of this node, as the API server has them and lately had them."""
