# Users, groups, roles, keys and policies of every kind that Terraform's aws provider has, less what only AWS has.
variable "changed" {
  type    = bool
  default = false
}

terraform {
  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.0" }
  }
}
provider "aws" {
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  s3_use_path_style           = true
}
data "aws_iam_policy_document" "read" {
  statement {
    actions   = var.changed ? ["s3:ListBucket"] : ["s3:GetObject", "s3:ListBucket"]
    resources = ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["a/*"]
    }
  }
}
data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "AWS"
      identifiers = [aws_iam_user.alice.arn]
    }
  }
}
resource "aws_iam_policy" "read" {
  name        = "read"
  path        = "/team/"
  description = "reads"
  policy      = data.aws_iam_policy_document.read.json
  tags        = var.changed ? {} : { owner = "me" }
}
resource "aws_iam_user" "alice" {
  name                 = "alice"
  path                 = var.changed ? "/others/" : "/people/"
  permissions_boundary = aws_iam_policy.read.arn
  tags                 = { team = var.changed ? "blue" : "red" }
  force_destroy        = true
}
resource "aws_iam_access_key" "alice" { user = aws_iam_user.alice.name }
resource "aws_iam_user_policy" "own" {
  name   = "own"
  user   = aws_iam_user.alice.name
  policy = data.aws_iam_policy_document.read.json
}
resource "aws_iam_user_policy_attachment" "full" {
  user       = aws_iam_user.alice.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonS3FullAccess"
}
resource "aws_iam_group" "g" { name = "g" }
resource "aws_iam_group_policy" "g" {
  group  = aws_iam_group.g.name
  policy = data.aws_iam_policy_document.read.json
}
resource "aws_iam_group_policy_attachment" "g" {
  group      = aws_iam_group.g.name
  policy_arn = aws_iam_policy.read.arn
}
resource "aws_iam_user_group_membership" "m" {
  user   = aws_iam_user.alice.name
  groups = [aws_iam_group.g.name]
}
resource "aws_iam_role" "r" {
  name                 = "r"
  assume_role_policy   = data.aws_iam_policy_document.trust.json
  max_session_duration = var.changed ? 3600 : 7200
  description          = var.changed ? "" : "a role"
  permissions_boundary = aws_iam_policy.read.arn
  tags                 = { a = "b" }
}
resource "aws_iam_role_policy" "r" {
  role   = aws_iam_role.r.id
  policy = data.aws_iam_policy_document.read.json
}
resource "aws_iam_role_policy_attachment" "r" {
  role       = aws_iam_role.r.name
  policy_arn = aws_iam_policy.read.arn
}
data "aws_iam_user" "alice" { user_name = aws_iam_user.alice.name }
data "aws_iam_policy" "full" { arn = "arn:aws:iam::aws:policy/AmazonS3FullAccess" }
