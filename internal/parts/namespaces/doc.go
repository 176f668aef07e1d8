// Package namespaces makes an operator handle the namespaces that patterns or a function select, and enter and leave them as they come and go.
package namespaces
