// Package served asks the API server which kinds it serves, and whether their verbs and schemas fit the declarations of an operator.
package served
