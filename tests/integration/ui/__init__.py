"""The page of `accelet ui` over real HTTP, and in a real browser."""
