"""`accelet task`: what people do with GPU tasks."""
