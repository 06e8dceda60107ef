"""Client for questions to vision-language models, language models and people over HTTP, and oracles that use it."""
