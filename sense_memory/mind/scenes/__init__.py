"""Logs that several agents share: scenes, their keys and members, invitations, and facets of the palace that others read."""
