// Package peers coordinates an operator with others: it runs the peering, and forwards pauses to the engines.
package peers
