#include "common/harness/variant.h"

std::string why_unsupported(const Variant& variant, const Problem& problem, const Machine& machine) {
  return variant.unsupported ? variant.unsupported(problem, machine) : "";
}

Workspace workspace_of(const Variant& variant, const Problem& problem, const Machine& machine) {
  return variant.workspace ? variant.workspace(problem, machine) : Workspace{};
}
