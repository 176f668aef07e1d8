// Package crdschema applies the schema of a CustomResourceDefinition to objects, as the API server does: it prunes unknown fields, sets
// defaults, and validates. It doesn't evaluate CEL rules.
package crdschema
