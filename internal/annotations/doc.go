// Package annotations separates users' annotations from those of operators that use kopf or this library:
//
//	annotations.IsManaged("kopf.zalando.org/create", obj.GetAnnotations())        // true
//	annotations.IsManaged("product.example.com/create", obj.GetAnnotations())     // true if the object has product.example.com/kopf-managed
//	annotations.OfUsers(obj.GetAnnotations())                                     // the others
package annotations
