// Package rights compares the permissions that an operator has with those that it needs, at its start and while it runs.
package rights
