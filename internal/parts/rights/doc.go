// Package rights compares the permissions that an operator has with those it needs, when it starts and while it runs.
package rights
