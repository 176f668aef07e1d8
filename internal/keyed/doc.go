// Package keyed has a map for data that only few objects have at a time.
package keyed
