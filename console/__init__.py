"""The top floor: settings, pages for people, the API for agents, alerts. Imported by no other app."""
