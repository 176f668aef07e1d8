// Package namespaces makes an operator handle the namespaces selected by patterns or a function, and enter and leave them as they come and
// go.
package namespaces
