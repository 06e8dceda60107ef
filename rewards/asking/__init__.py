"""Client for questions to vision-language models, language models and people over HTTP, and the oracles that use it."""
