# A bucket whose rules name a target of the server.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

provider "aws" {
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  s3_use_path_style           = true
}

variable "bucket" {
  type = string
}

variable "changed" {
  type    = bool
  default = false
}

resource "aws_s3_bucket_replication_configuration" "copies" {
  bucket = var.bucket
  role   = "arn:aws:iam::123456789012:role/replication"

  rule {
    id       = "photos"
    status   = "Enabled"
    priority = 1

    filter {
      and {
        prefix = var.changed ? "pictures/" : "photos/"
        tags = {
          copy = "yes"
        }
      }
    }

    delete_marker_replication {
      status = "Disabled"
    }

    destination {
      bucket        = "arn:aws:s3:::site/${var.bucket}"
      storage_class = "STANDARD_IA"
    }
  }

  rule {
    id       = "all"
    status   = "Enabled"
    priority = 0

    filter {
      prefix = ""
    }

    existing_object_replication {
      status = "Enabled"
    }

    delete_marker_replication {
      status = "Enabled"
    }

    destination {
      bucket = "arn:aws:s3:::site/${var.bucket}"

      metrics {
        status = "Enabled"
      }
    }
  }
}
