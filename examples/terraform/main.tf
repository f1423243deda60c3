# A pod as a Terraform resource, and what can be ordered as data: docs/terraform.md explains each line.
terraform {
  required_version = ">= 1.5"
  required_providers {
    http = {
      source  = "hashicorp/http"
      version = "~> 3.4"
    }
    restapi = {
      source  = "Mastercard/restapi"
      version = "~> 3.0"
    }
  }
}

variable "weft" {
  type        = string
  description = "Address of weft's API, such as https://weft.example:8787."
}

variable "token" {
  type        = string
  sensitive   = true
  description = "Keystone token of the project: openstack token issue -f value -c id."
}

variable "nodes" {
  type        = number
  default     = 2
  description = "Nodes of the pod."
}

locals {
  # The pod file (docs/pod-file.md), as Terraform writes it.
  order = {
    name = "train"
    nodes = {
      count  = var.nodes
      flavor = "gpu8"
      image  = "tiny"
    }
  }
}

provider "restapi" {
  uri          = var.weft
  id_attribute = "name"
  headers = {
    "X-Auth-Token" = var.token
    "Content-Type" = "application/json"
  }
}

resource "restapi_object" "pod" {
  path           = "/v1/pods"
  data           = jsonencode(local.order)
  destroy_method = "POST"
  destroy_path   = "/v1/pods/{id}/release"

  # weft answers with the pod, whose fields aren't those of its order: what the order says is compared by Terraform.
  ignore_changes_to       = [for key in keys(local.order) : key if key != "name"]
  ignore_server_additions = true
  force_new               = ["name"]
}

# weft keeps a pod that was released, so Terraform doesn't miss it by itself.
check "pod" {
  assert {
    condition     = jsondecode(restapi_object.pod.api_response).phase != "released"
    error_message = "The pod was released: terraform apply -replace=restapi_object.pod orders it again."
  }
}

data "http" "capacity" {
  url             = "${var.weft}/v1/capacity"
  request_headers = { "X-Auth-Token" = var.token }

  lifecycle {
    postcondition {
      condition     = self.status_code == 200
      error_message = "weft answered ${self.status_code}: ${self.response_body}"
    }
  }
}

output "pod" {
  value = {
    id    = jsondecode(restapi_object.pod.api_response).id
    state = jsondecode(restapi_object.pod.api_response).state
  }
}

output "capacity" {
  value = jsondecode(data.http.capacity.response_body)
}
