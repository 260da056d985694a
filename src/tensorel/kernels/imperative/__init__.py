"""Units of imperative programs to Loop IR: every statement in its order, with the checks that no
fact about the call makes superfluous. ``statements`` lowers statements, ``numbers`` and
``arithmetic`` expressions, ``checks`` what can go wrong."""
