package progress

// The method CallsNoUserCode marks the stores and baselines that call no code of users. Package kopf calls all others in separate goroutines, because their
// methods could call runtime.Goexit. The combinations of stores have no mark, since they can contain stores of users.

func (annotationStore) CallsNoUserCode()    {}
func (statusStore) CallsNoUserCode()        {}
func (smartStore) CallsNoUserCode()         {}
func (*memoryStore) CallsNoUserCode()       {}
func (annotationBaseline) CallsNoUserCode() {}
func (statusBaseline) CallsNoUserCode()     {}
