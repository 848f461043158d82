"""The HTTP server: OpenAI's endpoints over one `AsyncLLM`; needs the extra `paceline[server]`."""
