"""What is written of objects: conditions, owners, finalizers.

Pure: values in, values out.

conditions  Conditions in the status of our own kinds, as metav1.Condition has them.
disruption  What PodDisruptionBudgets say of ending pods otherwise than by the eviction API, which asks them
            itself.
ownership   Who owns an object, and who must have let go before it goes.
"""
