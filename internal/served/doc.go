// Package served finds out which kinds the API server serves, and whether their verbs and schemas fit an operator's declarations.
package served
