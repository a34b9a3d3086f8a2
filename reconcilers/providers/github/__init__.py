"""GitHub: deployments and issues of one repository, by id, by list and by search."""

from reconcilers.providers.github.provider import GitHubProvider

provider = GitHubProvider()

__all__ = ["provider"]
