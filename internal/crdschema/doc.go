// Package crdschema applies the schema of a CustomResourceDefinition to objects, as the API server does: it prunes unknown fields, sets defaults, and validates.
// It evaluates no CEL rules.
package crdschema
