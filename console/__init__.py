"""The top floor: settings, pages for people, the API for agents. No other app imports it."""
