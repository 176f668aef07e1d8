// Package peers coordinates an operator with other operators: it runs the peering, and forwards its pauses to the engines.
package peers
