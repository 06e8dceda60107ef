"""Vision-language models, language models and people as judges: one client for all that answer over HTTP."""
