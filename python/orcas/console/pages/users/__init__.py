"""Users, groups, roles, access keys and policies, by actions of IAM with the rights of the visitor."""
